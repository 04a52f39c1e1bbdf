module outside3

go 1.22

require outside2 v0.0.0

replace outside2 => ../../outside2/go
