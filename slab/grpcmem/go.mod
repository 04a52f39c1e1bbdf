module github.com/highwater-rs/highwater/slab/grpcmem

go 1.26.0

require (
	github.com/highwater-rs/highwater/slab v0.0.0
	google.golang.org/grpc v1.85.0 // mem.BufferPool
)

require golang.org/x/sys v0.48.0 // indirect

replace github.com/highwater-rs/highwater/slab => ../
