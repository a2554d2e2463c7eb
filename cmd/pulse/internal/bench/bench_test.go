package bench

import (
	"testing"

	"github.com/matryer/is"
)

func TestPercentiles_AreOfAllLatencies(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var latencies []int64
	for i := range int64(1000) {
		latencies = append(latencies, 1000*(1000-i)) // 1 to 1,000 ms, the longest first
	}
	is.Equal(*percentiles(latencies), Latency{P50: 501, P95: 951, P99: 991, Max: 1000})
	is.Equal(*percentiles([]int64{7000}), Latency{P50: 7, P95: 7, P99: 7, Max: 7})
	is.True(percentiles(nil) == nil)
}
