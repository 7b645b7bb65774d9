package pods

import (
	"fmt"
	"strings"
)

// Image is what a container image stands for.
type Image struct {
	Command []string          // the entry point: run before the container's args when it names no command
	Files   map[string]string // path in the container → path on this machine, mounted there
	Env     []string          // NAME=VALUE
}

// ParseImage reads NAME=COMMAND of a command line; NAME may end in * to stand for all that begin so.
func ParseImage(s string) (name string, image Image, err error) {
	name, command, found := strings.Cut(s, "=")
	if !found || name == "" || strings.TrimSpace(command) == "" {
		return "", Image{}, fmt.Errorf("image %q: write it as NAME=COMMAND", s)
	}
	return name, Image{Command: strings.Fields(command)}, nil
}

// Images maps names of images to what they stand for. A name that ends in * stands for all names that begin so.
type Images map[string]Image

// find returns the longest match.
func (i Images) find(ref string) (Image, bool) {
	if image, exact := i[ref]; exact {
		return image, true
	}
	best, any := "", false
	for name := range i {
		prefix, isPrefix := strings.CutSuffix(name, "*")
		if isPrefix && strings.HasPrefix(ref, prefix) && len(name) > len(best) {
			best, any = name, true
		}
	}
	return i[best], any
}
