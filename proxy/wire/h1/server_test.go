package h1

import "testing"

func TestServerAnswers(t *testing.T) {
	w := serve(t, quick(), echo)
	d := w.dial()
	d.send("GET /a/../b?x=%zz HTTP/1.1\r\nHost: A.example:80\r\nX-A: 1\r\nX_B: 2\r\n\r\n")
	r, body := d.answer("GET")
	if r.StatusCode != 200 || body != "GET a.example /b?x=%zz [X-A: 1]" || r.Header.Get("Server") != "sluice" || r.Header.Get("Date") == "" {
		t.Errorf("%d %q %v", r.StatusCode, body, r.Header)
	}
	d.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
	if _, body = d.answer("POST"); body != "POST a / body=abcde" {
		t.Errorf("%q", body)
	}
	d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
	if r, body = d.answer("POST"); body != "POST a / body=abc" || !r.Close {
		t.Errorf("%q %v", body, r.Close)
	}
	d.ended()
}
