module github.com/highwater-rs/highwater/subjects/fibre

go 1.25

require (
	github.com/highwater-rs/highwater/slab v0.0.0
	github.com/klauspost/reedsolomon v1.14.2 // the codec of the history
)

require (
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	golang.org/x/sys v0.30.0 // indirect
)

replace (
	github.com/highwater-rs/highwater/slab => ../../slab
	github.com/highwater-rs/highwater/slab/reedsolomon => ../../slab/reedsolomon
)
