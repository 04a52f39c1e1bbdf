module gogrow
go 1.21
