package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// token is a service account token in a volume, with when it is to be replaced.
type token struct {
	value string
	renew time.Time
}

// makeVolumes makes the folder of each volume and fills it; again, it brings those up to date that follow objects.
func (p *pod) makeVolumes(ctx context.Context) error {
	var all []error
	object := p.current()
	for i := range object.Spec.Volumes {
		if err := p.makeVolume(ctx, &object.Spec.Volumes[i]); err != nil {
			all = append(all, fmt.Errorf("volume %s: %w", object.Spec.Volumes[i].Name, err))
		}
	}
	return errors.Join(all...)
}

func (p *pod) makeVolume(ctx context.Context, v *corev1.Volume) error {
	if v.HostPath != nil {
		if ptr.Deref(v.HostPath.Type, "") == corev1.HostPathDirectoryOrCreate {
			return os.MkdirAll(v.HostPath.Path, 0o755)
		}
		return nil
	}
	dir := p.volumeDir(v)
	mode := fs.FileMode(0o755)
	if v.EmptyDir != nil {
		mode = 0o777
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	if err := os.Chmod(dir, mode); err != nil {
		return err
	}
	sources, defaultMode, err := sourcesOf(v)
	if err != nil || sources == nil {
		return err
	}
	return p.fill(ctx, dir, sources, defaultMode)
}

// volumeDir is where a volume is on this machine.
func (p *pod) volumeDir(v *corev1.Volume) string {
	if v.HostPath != nil {
		return v.HostPath.Path
	}
	return filepath.Join(p.dir(), "volumes", v.Name)
}

// sourcesOf puts every volume that Kubernetes writes into the form of a projected one; nil for an emptyDir.
func sourcesOf(v *corev1.Volume) ([]corev1.VolumeProjection, fs.FileMode, error) {
	switch {
	case v.EmptyDir != nil:
		return nil, 0, nil
	case v.ConfigMap != nil:
		s := v.ConfigMap
		return []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: s.LocalObjectReference, Items: s.Items, Optional: s.Optional}}}, modeOf(s.DefaultMode), nil
	case v.Secret != nil:
		s := v.Secret
		return []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName}, Items: s.Items, Optional: s.Optional}}}, modeOf(s.DefaultMode), nil
	case v.DownwardAPI != nil:
		return []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}, modeOf(v.DownwardAPI.DefaultMode), nil
	case v.Projected != nil:
		return v.Projected.Sources, modeOf(v.Projected.DefaultMode), nil
	}
	return nil, 0, fmt.Errorf("this type of volume is not supported")
}

func modeOf(mode *int32) fs.FileMode { return fs.FileMode(ptr.Deref(mode, 0o644)) & fs.ModePerm }

func (p *pod) fill(ctx context.Context, dir string, sources []corev1.VolumeProjection, mode fs.FileMode) error {
	t := tree{}
	for _, s := range sources {
		var err error
		switch {
		case s.ConfigMap != nil:
			var data map[string][]byte
			if data, err = p.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional); err == nil {
				err = t.add(data, s.ConfigMap.Items, mode, ptr.Deref(s.ConfigMap.Optional, false))
			}
		case s.Secret != nil:
			var data map[string][]byte
			if data, err = p.secret(ctx, s.Secret.Name, s.Secret.Optional); err == nil {
				err = t.add(data, s.Secret.Items, mode, ptr.Deref(s.Secret.Optional, false))
			}
		case s.DownwardAPI != nil:
			err = p.addFields(t, s.DownwardAPI.Items, mode)
		case s.ServiceAccountToken != nil:
			var value string
			if value, err = p.token(ctx, s.ServiceAccountToken); err == nil {
				t[s.ServiceAccountToken.Path] = file{[]byte(value), mode}
			}
		default:
			err = fmt.Errorf("this kind of projection is not supported")
		}
		if err != nil {
			return err
		}
	}
	group := int64(0)
	if c := p.current().Spec.SecurityContext; c != nil {
		group = ptr.Deref(c.FSGroup, 0)
	}
	_, err := t.write(dir, int(group))
	return err
}

// add puts the keys of an object in: those of items under their paths, or all.
func (t tree) add(data map[string][]byte, items []corev1.KeyToPath, mode fs.FileMode, optional bool) error {
	if items == nil {
		for k, v := range data {
			t[k] = file{v, mode}
		}
		return nil
	}
	for _, item := range items {
		value, found := data[item.Key]
		if !found && optional {
			continue
		}
		if !found {
			return fmt.Errorf("key %q is missing", item.Key)
		}
		own := mode
		if item.Mode != nil {
			own = modeOf(item.Mode)
		}
		t[filepath.Clean(item.Path)] = file{value, own}
	}
	return nil
}

func (p *pod) addFields(t tree, items []corev1.DownwardAPIVolumeFile, mode fs.FileMode) error {
	for _, item := range items {
		var value string
		err := fmt.Errorf("neither fieldRef nor resourceFieldRef")
		switch {
		case item.FieldRef != nil:
			value, err = p.field(item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = amount(p.current(), "", item.ResourceFieldRef)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", item.Path, err)
		}
		own := mode
		if item.Mode != nil {
			own = modeOf(item.Mode)
		}
		t[filepath.Clean(item.Path)] = file{[]byte(value), own}
	}
	return nil
}

// token asks for a token bound to the Pod, and again when four fifths of its time are over.
func (p *pod) token(ctx context.Context, s *corev1.ServiceAccountTokenProjection) (string, error) {
	id := s.Audience + "\n" + s.Path
	p.mu.Lock()
	known := p.tokens[id]
	p.mu.Unlock()
	if time.Now().Before(known.renew) {
		return known.value, nil
	}
	object := p.current()
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: s.ExpirationSeconds,
		BoundObjectRef:    &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: object.Name, UID: object.UID},
	}}
	if s.Audience != "" {
		request.Spec.Audiences = []string{s.Audience}
	}
	account := object.Spec.ServiceAccountName
	begin := time.Now()
	request, err := p.runner.Client.CoreV1().ServiceAccounts(p.namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of %s: %w", account, err)
	}
	fresh := token{request.Status.Token, begin.Add(request.Status.ExpirationTimestamp.Sub(begin) * 4 / 5)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens[id] = fresh
	return fresh.value, nil
}

// untilRenewal is how long the tokens last.
func (p *pod) untilRenewal() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := 24 * time.Hour
	for _, t := range p.tokens {
		wait = min(wait, time.Until(t.renew))
	}
	return max(wait, time.Second)
}

// uses says whether a volume shows an object.
func uses(o *corev1.Pod, kind, name string) bool {
	for i := range o.Spec.Volumes {
		sources, _, err := sourcesOf(&o.Spec.Volumes[i])
		if err != nil {
			continue
		}
		for _, s := range sources {
			if kind == "ConfigMap" && s.ConfigMap != nil && s.ConfigMap.Name == name || kind == "Secret" && s.Secret != nil && s.Secret.Name == name {
				return true
			}
		}
	}
	return false
}
