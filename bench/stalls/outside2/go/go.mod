module outside2
go 1.22
