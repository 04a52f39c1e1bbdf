module gomix

go 1.21
