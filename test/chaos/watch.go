package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// held is how long an event waits for one to change places with.
const held = 200 * time.Millisecond

// frame is one event as it is on the wire.
type frame struct {
	data   []byte
	event  string // ADDED, ...
	object string // namespace/name
}

// stream passes the events of one watch on.
type stream struct {
	proxy *Proxy
	q     request
	codec runtime.SerializerInfo
	out   io.Writer // frames
	flush func() error
	wait  *frame // held back until one of another object has passed
	until <-chan time.Time
}

// watch passes the events of a watch on and does to them what the script says. An error means that the watch is to be cut.
func (p *Proxy) watch(ctx context.Context, w http.ResponseWriter, response *http.Response, q request) error {
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	codec, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !known || codec.StreamSerializer == nil {
		return fmt.Errorf("watch in %s, which the proxy does not read", media)
	}
	s := &stream{proxy: p, q: q, codec: codec, out: codec.StreamSerializer.Framer.NewFrameWriter(w), flush: http.NewResponseController(w).Flush}
	if err := s.flush(); err != nil {
		return err
	}
	frames := make(chan frame)
	broken := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { broken <- s.read(ctx, response.Body, frames) }()
	for {
		select {
		case f := <-frames:
			if over, err := s.pass(ctx, f, w); over || err != nil {
				return err
			}
		case <-s.until:
			if err := s.release(); err != nil {
				return err
			}
		case err := <-broken:
			return errors.Join(s.release(), err)
		}
	}
}

// read takes the stream apart until it ends.
func (s *stream) read(ctx context.Context, body io.ReadCloser, frames chan<- frame) error {
	reader := s.codec.StreamSerializer.Framer.NewFrameReader(body)
	chunk := make([]byte, 64<<10)
	var data []byte
	for {
		n, err := reader.Read(chunk)
		data = append(data, chunk[:n]...)
		switch {
		case errors.Is(err, io.ErrShortBuffer):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		f, err := s.decode(data)
		if err != nil {
			return err
		}
		data = nil
		select {
		case frames <- f:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *stream) decode(data []byte) (frame, error) {
	event := &metav1.WatchEvent{}
	if _, _, err := s.codec.StreamSerializer.Decode(data, nil, event); err != nil {
		return frame{}, fmt.Errorf("read an event: %w", err)
	}
	object := &metav1.PartialObjectMetadata{}
	var err error
	if s.codec.MediaType == runtime.ContentTypeProtobuf {
		// Every object's first field is its metadata, so that this reads any kind.
		unknown := &runtime.Unknown{}
		const magic = "k8s\x00"
		if err = unknown.Unmarshal(bytes.TrimPrefix(event.Object.Raw, []byte(magic))); err == nil && event.Type != "ERROR" {
			err = object.Unmarshal(unknown.Raw)
		}
	} else if event.Type != "ERROR" {
		err = json.Unmarshal(event.Object.Raw, object)
	}
	return frame{data: data, event: event.Type, object: object.Namespace + "/" + object.Name}, err
}

// pass sends one event on, or does what the script says. It returns true when the watch is over.
func (s *stream) pass(ctx context.Context, f frame, raw io.Writer) (over bool, err error) {
	rule := s.proxy.play.Load().next(s.q, f.event)
	if rule == nil {
		return false, s.send(f)
	}
	s.proxy.say(s.q, rule, f.event+" "+f.object)
	switch rule.Do {
	case DelayEvent:
		if !pause(ctx, rule.Time.Duration) {
			return true, nil
		}
		return false, s.send(f)
	case DuplicateEvent:
		return false, errors.Join(s.send(f), s.send(f))
	case ReorderEvents:
		if err := s.release(); err != nil {
			return false, err
		}
		limit := rule.Time.Duration
		if limit == 0 {
			limit = held
		}
		s.wait, s.until = &f, time.After(limit)
		return false, nil
	}
	// A client that has seen the later of two events asks for what comes after it, so the earlier one must not be lost.
	if err := s.release(); err != nil {
		return false, err
	}
	switch rule.Do {
	case ExpireWatch:
		return true, s.expire(rule)
	case CutWatch:
		whole := &bytes.Buffer{}
		if _, err := s.codec.StreamSerializer.Framer.NewFrameWriter(whole).Write(f.data); err != nil {
			return true, err
		}
		_, err := raw.Write(whole.Bytes()[:whole.Len()/2])
		return true, errors.Join(err, s.flush(), errCut)
	}
	return true, nil
}

// send writes an event, and then the one that it was to overtake. One of the same object, or a bookmark, overtakes none.
func (s *stream) send(f frame) error {
	if s.wait != nil && (s.wait.object == f.object || f.event == "BOOKMARK" || f.event == "ERROR") {
		if err := s.release(); err != nil {
			return err
		}
	}
	if err := s.write(f.data); err != nil {
		return err
	}
	return s.release()
}

// release writes the event that is held back.
func (s *stream) release() error {
	f := s.wait
	s.wait, s.until = nil, nil
	if f == nil {
		return nil
	}
	return s.write(f.data)
}

func (s *stream) write(data []byte) error {
	if _, err := s.out.Write(data); err != nil {
		return err
	}
	return s.flush()
}

// expire sends the ERROR event of an API server that no longer has the history that a watch needs.
func (s *stream) expire(rule *Rule) error {
	status := apierrors.NewResourceExpired("by script: " + rule.title()).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	object := &bytes.Buffer{}
	if err := s.codec.Serializer.Encode(&status, object); err != nil {
		return err
	}
	event := &bytes.Buffer{}
	err := s.codec.StreamSerializer.Encode(&metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: object.Bytes()}}, event)
	if err != nil {
		return err
	}
	return s.write(event.Bytes())
}
