package h1

import (
	"fmt"
	"strings"
	"testing"
)

// obfuscation is a way to write "Transfer-Encoding: chunked" so that one reader takes it for that and another does not.
type obfuscation struct{ name, lines string }

// obfuscations are some eighty of them: what can go before, between and behind each part.
func obfuscations() (all []obfuscation) {
	add := func(name, lines string) { all = append(all, obfuscation{name, lines}) }
	const te = "Transfer-Encoding"
	for _, c := range []byte{0, 1, 4, 7, 8, 9, 10, 11, 12, 13, 27, 31, ' ', '"', '\'', ',', ';', ':', '/', '\\', '-', '_', '.', 0x7f, 0x80, 0x85, 0xa0, 0xff} {
		s := string([]byte{c})
		hex := fmt.Sprintf("%02x", c)
		if c != ' ' && c != '\t' {
			add("before the value "+hex, te+": "+s+"chunked")
			add("behind the value "+hex, te+": chunked"+s)
		}
		if strings.IndexByte("-_.'", c) < 0 {
			add("behind the name "+hex, te+s+": chunked")
		}
	}
	for name, lines := range map[string]string{
		"space before the name":       " " + te + ": chunked",
		"tab before the name":         "\t" + te + ": chunked",
		"folded value":                te + ":\r\n chunked",
		"folded value with a tab":     te + ":\r\n\tchunked",
		"folded behind":               te + ": chunked\r\n ",
		"folded from an other field":  "X: 1\r\n " + te + ": chunked",
		"bare LF before":              "X: 1\n" + te + ": chunked",
		"bare LF behind":              te + ": chunked\nX: 1",
		"bare CR before":              "X: 1\r" + te + ": chunked",
		"bare CR behind":              te + ": chunked\rX: 1",
		"CR CR LF":                    te + ": chunked\r\r\nX: 1",
		"no colon":                    te + " chunked",
		"two colons":                  te + ":: chunked",
		"equals":                      te + "= chunked",
		"NUL in the name":             "Transfer\x00-Encoding: chunked",
		"space in the name":           "Transfer Encoding: chunked",
		"a long s":                    "Tran\u017ffer-Encoding: chunked",
		"a kelvin sign":               te + ": chun\u212aed",
		"twice":                       te + ": chunked\r\n" + te + ": chunked",
		"with identity behind":        te + ": chunked\r\n" + te + ": identity",
		"with identity before":        te + ": identity\r\n" + te + ": chunked",
		"twice, once in another case": te + ": chunked\r\ntransfer-encoding: cow",
		"list with a stranger":        te + ": chunked, cow",
		"list behind a stranger":      te + ": cow, chunked",
		"list with nothing":           te + ": chunked,",
		"list behind nothing":         te + ": , chunked",
		"list of one twice":           te + ": chunked,chunked",
		"parameter":                   te + ": chunked; x=y",
		"quoted":                      te + `: "chunked"`,
		"quoted in part":              te + `: chun"ked"`,
		"empty":                       te + ":",
		"x before":                    te + ": xchunked",
		"x behind":                    te + ": chunkedx",
		"escaped":                     te + `: chunk\u0065d`,
		"in a comment":                te + ": (chunked)",
		"content coding":              te + ": gzip",
		"compress":                    te + ": compress, chunked",
		"with a length":               te + ": chunked\r\nContent-Length: 3",
		"with a length before":        "Content-Length: 3\r\n" + te + ": chunked",
		"with an obfuscated length":   te + ": chunked\r\nContent-Length: +3",
		"colon in the value":          te + ": chunked:",
		"name in brackets":            "[" + te + "]: chunked",
		"value with a version":        te + ": chunked/1.1",
		"space in the value":          te + ": chun ked",
		"BOM before the name":         "\ufeff" + te + ": chunked",
		"BOM before the value":        te + ": \ufeffchunked",
		"no-break space":              te + ":\u00a0chunked",
		"next line character":         te + ":\u0085chunked",
		"fullwidth letters":           te + ": \uff43hunked",
		"percent":                     te + ": %63hunked",
		"dash and underscore, twice":  "Transfer_Encoding: chunked\r\n" + te + ": cow",
		"connection names it, badly":  "Connection: " + te + "\r\n" + te + ": chunked, chunked",
		"HTTP/1.0 would not know it":  te + ": chunked, identity",
		"semicolon before":            te + ": ;chunked",
		"braces":                      te + ": {chunked}",
		"angle brackets":              te + ": <chunked>",
		"at sign":                     te + ": @chunked",
		"equals in the value":         te + ": =chunked",
		"question mark":               te + ": chunked?",
	} {
		add(name, lines)
	}
	return all
}

func TestA3_Obfuscations(t *testing.T) {
	all := obfuscations()
	if len(all) < 80 {
		t.Errorf("only %d obfuscations", len(all))
	}
	origin := record(t)
	f := forwardTo(origin.addr)
	w := serve(t, quick(), f.serve)
	for _, o := range all {
		d := w.dial()
		d.send("POST / HTTP/1.1\r\nHost: a\r\n" + o.lines + "\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
		r, _ := d.answer("POST")
		if (r.StatusCode != 400 && r.StatusCode != 501) || !r.Close {
			t.Errorf("%s: %q: answered %d, close %v", o.name, o.lines, r.StatusCode, r.Close)
		}
		d.ended()
	}
	if got := w.requests(); len(got) > 0 || len(origin.messages) > 0 {
		t.Errorf("requests went through: %q %+v", got, origin.messages)
	}
}
