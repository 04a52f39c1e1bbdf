module github.com/highwater-rs/highwater/slab

go 1.25
