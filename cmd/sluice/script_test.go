package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected output of testdata")

// binaries is the folder with sluice and easegress-server, which is the same program under its other name.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if binaries, err = os.MkdirTemp("", "sluice-cli-"); err != nil {
		panic(err)
	}
	code := 1
	if out, err := exec.Command("go", "build", "-o", filepath.Join(binaries, "sluice"), ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building sluice: %v\n%s", err, out)
	} else if err := os.Symlink("sluice", filepath.Join(binaries, legacyName)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(binaries)
	os.Exit(code)
}

// TestScripts runs testdata/*.txtar: each is a script, then the files of the folder that it runs in. A line `$ NAME=VALUE COMMAND ARGS`
// runs a command; the lines below it are all that it must print, where … stands for anything; `? N` is its exit code when
// that is not 0.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file)
		})
	}
}

func runScript(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(folder, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var rewritten strings.Builder
	lines := strings.Split(strings.TrimRight(string(archive.Comment), "\n"), "\n")
	for i := 0; i < len(lines); {
		command, isCommand := strings.CutPrefix(lines[i], "$ ")
		rewritten.WriteString(lines[i] + "\n")
		i++
		if !isCommand {
			continue
		}
		var want []string
		for i < len(lines) && !strings.HasPrefix(lines[i], "$ ") && !strings.HasPrefix(lines[i], "#") && lines[i] != "" {
			want = append(want, lines[i])
			i++
		}
		got := execute(t, folder, command)
		if fits(want, got) {
			got = want
		} else if !*update {
			t.Errorf("$ %s\n%s\nwant\n%s", command, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, line := range got {
			rewritten.WriteString(line + "\n")
		}
	}
	if *update {
		archive.Comment = []byte(rewritten.String())
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// execute runs a command line and returns what it printed, and `? N` when it failed.
func execute(t *testing.T, folder, line string) []string {
	t.Helper()
	words := split(line)
	var env []string
	for len(words) > 0 && strings.Contains(words[0], "=") {
		env, words = append(env, words[0]), words[1:]
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, words[0]), words[1:]...)
	cmd.Dir = folder
	cmd.Env = append(env, "HOME="+folder)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var lines []string
	if text := strings.TrimRight(out.String(), "\n"); text != "" {
		for _, line := range strings.Split(text, "\n") {
			if line = strings.TrimRight(line, " "); line == "" {
				line = "." // an empty line would end the output
			}
			lines = append(lines, line)
		}
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		lines = append(lines, fmt.Sprintf("? %d", exit.ExitCode()))
	case err != nil:
		t.Fatal(err)
	}
	return lines
}

var word = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

func split(line string) []string {
	var words []string
	end := -1
	for _, at := range word.FindAllStringIndex(line, -1) {
		text := strings.Trim(line[at[0]:at[1]], `'"`)
		if at[0] == end {
			words[len(words)-1] += text
		} else {
			words = append(words, text)
		}
		end = at[1]
	}
	return words
}

// fits reports whether the lines are those wanted.
func fits(want, got []string) bool {
	parts := strings.Split(strings.Join(want, "\n"), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(strings.Join(got, "\n"))
}
