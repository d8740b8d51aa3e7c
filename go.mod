module culprit

go 1.26
