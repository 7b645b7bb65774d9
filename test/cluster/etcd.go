package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// CompactEtcd throws away all history up to now, so that a watch from an older resourceVersion is answered 410 Gone once the API
// server has no cache of its own (after a restart).
func (c *Cluster) CompactEtcd(ctx context.Context) error {
	var now struct {
		Header struct {
			Revision string `json:"revision"` // etcd writes 64-bit numbers as strings
		} `json:"header"`
	}
	if err := postEtcd(ctx, "/v3/kv/range", map[string]any{"key": "AA==", "limit": 1}, &now); err != nil {
		return err
	}
	return postEtcd(ctx, "/v3/kv/compaction", map[string]any{"revision": now.Header.Revision, "physical": true}, nil)
}

func postEtcd(ctx context.Context, path string, body, into any) error {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, etcdURL+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer response.Body.Close()
	if data, err = io.ReadAll(response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd %s: %s: %s", path, response.Status, data)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}
