module gorge

go 1.19
