package slabexpvar

import (
	"encoding/json"
	"expvar"
	"testing"

	"github.com/highwater-rs/highwater/slab"
)

func TestPublish(t *testing.T) {
	p, err := slab.New(slab.Options{Name: "published"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	Publish("slab.published", p)
	l, err := p.Get(1, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var s slab.Stats
	if err := json.Unmarshal([]byte(expvar.Get("slab.published").String()), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != "published" || s.Leases != 1 || s.InUse < 4096 {
		t.Fatalf("%+v", s)
	}
}
