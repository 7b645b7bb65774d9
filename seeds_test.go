package sluice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown is a test as docs/seeds.md names it: `package: Test` or `package: Test/case`.
var shown = regexp.MustCompile("`([^`]+): (Test[^`/]*)(?:/([^`]+))?`")

// claims finds what is wrong with the tables of a page whose last column names tests and plans.
func claims(text string, tests *testNames) (rows int, wrong []string) {
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		if !inTable { // its head
			inTable = true
			continue
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		proof := strings.TrimSpace(cells[len(cells)-1])
		named := shown.FindAllStringSubmatch(proof, -1)
		_, plan, planned := strings.Cut(proof, "planned: ")
		switch rest := strings.Trim(shown.ReplaceAllString(strings.TrimSuffix(proof, "planned: "+plan), ""), " ,;"); {
		case len(cells) != 2:
			wrong = append(wrong, "not two columns: "+line)
		case rest != "":
			wrong = append(wrong, "neither test nor plan: "+rest+" in "+line)
		case len(named) == 0 && (!planned || plan == ""):
			wrong = append(wrong, "no test and no plan: "+line)
		}
		for _, name := range named {
			if !tests.has(name[1], name[2], name[3]) {
				wrong = append(wrong, "there is no test "+name[0])
			}
		}
	}
	return rows, wrong
}

// testNames are the tests of packages, read when they are asked for.
type testNames struct {
	root string
	of   map[string]map[string]bool
}

// has reports whether a package has a test and, when a case is named, a file of it in testdata.
func (n *testNames) has(folder, test, name string) bool {
	if n.of[folder] == nil {
		n.of[folder] = testsIn(filepath.Join(n.root, folder))
	}
	if name == "" || !n.of[folder][test] {
		return n.of[folder][test]
	}
	_, err := os.Stat(filepath.Join(n.root, folder, "testdata", name+".txtar"))
	return err == nil
}

func testsIn(folder string) map[string]bool {
	found := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go")) // the pattern is none of a user's
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // its tests are missing then
		}
		for _, d := range parsed.Decls {
			if f, isFunc := d.(*ast.FuncDecl); isFunc && f.Recv == nil && isTest(f) {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}

// isTest reports whether go test would run the function.
func isTest(f *ast.FuncDecl) bool {
	if f.Name.Name == "TestMain" || f.Type.Params.NumFields() != 1 {
		return false
	}
	pointer, isPointer := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !isPointer {
		return false
	}
	of, isSelector := pointer.X.(*ast.SelectorExpr)
	return isSelector && of.Sel.Name == "T"
}

// TestClaims reads docs/seeds.md: each line names tests that exist, or a plan.
func TestClaims(t *testing.T) {
	text, err := os.ReadFile("docs/seeds.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, wrong := claims(string(text), &testNames{root: ".", of: map[string]map[string]bool{}})
	if rows < 80 {
		t.Errorf("%d lines were read", rows)
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

// TestClaimsAreRefused: a line without proof, or with one that is not there, is found.
func TestClaimsAreRefused(t *testing.T) {
	tests := &testNames{root: ".", of: map[string]map[string]bool{}}
	for proof, found := range map[string]bool{
		"`.: TestClaims`":                false,
		"planned: HTTP/3":                false,
		"`.: TestFloors`; planned: more": false,
		"`cmd/sluice: TestScripts/help`, `test/e2e: TestChaos`": false,
		"`.: TestNothing`":               true,
		"`nowhere: TestClaims`":          true,
		"`cmd/sluice: TestScripts/none`": true,
		"`cmd/sluice: TestMain`":         true,
		"":                               true,
		"planned: ":                      true,
		"somebody saw it":                true,
		"`.: TestClaims`, and by hand":   true,
		"`.: TestClaims` | too many":     true,
	} {
		rows, wrong := claims("| a controller … | shown by |\n|---|---|\n| does it | "+proof+" |\n", tests)
		if rows != 1 || (len(wrong) > 0) != found {
			t.Errorf("%s: %d lines, %q", proof, rows, wrong)
		}
	}
}
