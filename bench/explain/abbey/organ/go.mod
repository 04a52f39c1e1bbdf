module organ

go 1.19
