module outside
go 1.22
