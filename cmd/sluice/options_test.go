package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestServeHelpFitsTwoScreens: 48 lines of 100 columns.
func TestServeHelpFitsTwoScreens(t *testing.T) {
	out, err := exec.Command(filepath.Join(binaries, "sluice"), "serve", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) > 48 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
