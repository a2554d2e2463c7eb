package console

import (
	"fmt"
	"strings"
)

// The sizes of the drawings, in units of their view boxes. The style sheet stretches them.
const (
	sparkWidth, sparkHeight = 120, 24
	chartWidth, chartHeight = 600, 120
)

// spark is a line over time, as the attributes of two SVG paths.
type spark struct{ Line, Area string }

// drawSpark draws the values from left to right. The highest reaches the top; nothing at all is a line at the
// bottom.
func drawSpark(values []float64) spark {
	if len(values) < 2 {
		return spark{}
	}
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	step := float64(sparkWidth) / float64(len(values)-1)
	for i, v := range values {
		y := float64(sparkHeight) - 1
		if top > 0 {
			y -= v / top * (sparkHeight - 3)
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i, 1)], float64(i)*step, y)
	}
	line := b.String()
	return spark{Line: line, Area: fmt.Sprintf("%sV%dH0Z", line, sparkHeight)}
}

// bar is one slice of time in the chart of a subscription. Failures stand on top of successes.
type bar struct {
	X, Width          float64
	OKTop, OKHeight   float64
	BadTop, BadHeight float64
}

// drawBars draws successes and failures of each slice, the highest sum at full height.
func drawBars(succeeded, failed []float64) []bar {
	top := 0.0
	for i := range succeeded {
		top = max(top, succeeded[i]+failed[i])
	}
	if top == 0 {
		return nil
	}
	width := float64(chartWidth) / float64(len(succeeded))
	bars := make([]bar, 0, len(succeeded))
	for i := range succeeded {
		height := func(v float64) float64 {
			if v == 0 {
				return 0
			}
			return max(2, v/top*chartHeight) // what happened can be seen
		}
		ok, bad := height(succeeded[i]), height(failed[i])
		if ok+bad == 0 {
			continue
		}
		ok = min(ok, chartHeight-bad)
		bars = append(bars, bar{
			X: float64(i)*width + 1, Width: width - 2,
			OKTop: chartHeight - ok, OKHeight: ok, BadTop: chartHeight - ok - bad, BadHeight: bad,
		})
	}
	return bars
}
