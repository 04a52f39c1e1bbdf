module gostream

go 1.21
