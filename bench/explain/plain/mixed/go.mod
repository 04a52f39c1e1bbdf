module mixed

go 1.21
