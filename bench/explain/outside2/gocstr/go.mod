module gocstr

go 1.21
