module gostuck

go 1.21
