module gotimers

go 1.21
