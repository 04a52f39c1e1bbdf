module gomem

go 1.21
