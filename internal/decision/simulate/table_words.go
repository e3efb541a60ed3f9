package simulate

import (
	"strconv"
)

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func span(low, high int) string {
	if low == high {
		return strconv.Itoa(low)
	}
	return strconv.Itoa(low) + "-" + strconv.Itoa(high)
}

func dollars(price float64) string { return strconv.FormatFloat(price, 'f', 4, 64) }

func percent(part, whole float64) string {
	return strconv.FormatFloat(100*part/whole, 'f', 1, 64) + " %"
}
