module clock

go 1.19
