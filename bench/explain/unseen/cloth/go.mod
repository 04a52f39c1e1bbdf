module cloth

go 1.21
