package document_test

import (
	"fmt"
	"testing"

	netv1 "k8s.io/api/networking/v1"

	"sluice.dev/sluice/model/document"
)

func smallIngress(i int) string {
	return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: app-%d
  namespace: default
spec:
  ingressClassName: sluice
  rules:
  - host: app-%d.example.com
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: app-%d
            port:
              number: 80
`, i, i, i)
}

func BenchmarkIngress(b *testing.B) {
	data := []byte(smallIngress(7))
	b.ReportAllocs()
	for b.Loop() {
		docs, errs := document.Parse("in.yaml", data)
		if len(docs) != 1 || errs != nil {
			b.Fatal(errs)
		}
		var ing netv1.Ingress
		if errs := docs[0].Decode(&ing); errs != nil || ing.Spec.Rules[0].Host == "" {
			b.Fatal(errs)
		}
	}
}

func BenchmarkManyInOneFile(b *testing.B) {
	var data []byte
	for i := range 100 {
		data = append(data, "---\n"+smallIngress(i)...)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for doc, err := range document.All("in.yaml", data) {
			if err != nil {
				b.Fatal(err)
			}
			var ing netv1.Ingress
			if errs := doc.Decode(&ing); errs != nil {
				b.Fatal(errs)
			}
			n++
		}
		if n != 100 {
			b.Fatal(n)
		}
	}
}
