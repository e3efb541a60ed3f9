module program.test

go 1.26.0
