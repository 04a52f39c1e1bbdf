module github.com/highwater-rs/highwater/bench/compare/slab/micro

go 1.25

require (
	github.com/highwater-rs/highwater/slab v0.0.0
	github.com/klauspost/reedsolomon v1.14.2 // AllocAligned
)

replace github.com/highwater-rs/highwater/slab => ../../../../slab
