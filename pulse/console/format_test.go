package console

import (
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestFormat_Numbers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	plain := func(s string) string { return strings.ReplaceAll(s, "\u202f", " ") }
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1 000", 12480: "12 480", 1234567: "1 234 567", -1500: "−1 500"} {
		is.Equal(plain(number(n)), want)
	}
	for rate, want := range map[float64]string{0: "0/s", 0.001: "0.1/min", 0.05: "3/min", 0.5: "0.5/s", 9.94: "9.9/s", 9.96: "10/s", 1234.4: "1 234/s"} {
		is.Equal(plain(perSecond(rate)), want)
	}
	for share, want := range map[float64]string{0: "0 %", 0.0004: "< 0.1 %", 0.012: "1.2 %", 0.5: "50 %", 0.9999: "99 %", 1: "100 %"} {
		is.Equal(percent(share), want)
	}
	for d, want := range map[time.Duration]string{
		0: "0 ms", 340 * time.Millisecond: "340 ms", 1034 * time.Millisecond: "1 s", 4250 * time.Millisecond: "4.2 s", 59 * time.Second: "59 s",
		200 * time.Second: "3 min 20 s", time.Hour: "1 h", 26 * time.Hour: "1 d 2 h", -time.Minute: "−1 min",
	} {
		is.Equal(duration(d), want)
	}
	is.Equal(short("0198c2f1-0000-7000-8000-00000000abcd"), "0198c2f1…00abcd")
	is.Equal(short("order-17"), "order-17")
	is.Equal(instant(time.Time{}), missing)
	is.Equal(plural(1, "event", "events"), "1 event")
}

// A payload is Extended JSON with its parts marked, escaped, cut where it helps nobody any more, and never an error.
func TestPayload_IsMarkedEscapedAndCut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	of := func(v any) bson.RawValue {
		kind, data, err := bson.MarshalValue(v)
		is.NoErr(err)
		return bson.RawValue{Type: kind, Value: data}
	}
	got := formatPayload(of(bson.D{
		{Key: "a<b", Value: `</pre><script>"\`},
		{Key: "n", Value: 1.5},
		{Key: "on", Value: true},
		{Key: "at", Value: time.Date(2026, 5, 17, 0, 0, 0, 0, time.UTC)},
		{Key: "big", Value: int64(1) << 60},
	}))
	text := string(got.Text)
	is.True(!got.Cut)
	is.True(!strings.Contains(text, "<script"))
	for _, part := range []string{
		`<span class="j-k">&#34;n&#34;</span>: <span class="j-v">1.5</span>`,
		`<span class="j-v">true</span>`,
		`{<span class="j-k">&#34;$date&#34;</span>: <span class="j-s">&#34;2026-05-17T00:00:00Z&#34;</span>}`,
		`<span class="j-v">1152921504606846976</span>`,
		`<span class="j-s">&#34;&lt;/pre&gt;`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %s", text, part)
		}
	}
	is.Equal(string(formatPayload(of("only text")).Text), `<span class="j-s">&#34;only text&#34;</span>`)
	long := formatPayload(of(bson.D{{Key: "text", Value: strings.Repeat("ü", maxPayload)}}))
	is.True(long.Cut)
	is.True(len(long.Text) < 2*maxPayload)
	is.True(strings.Contains(string(formatPayload(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: []byte{1}}).Text), "not readable"))
	is.True(formatPayload(bson.RawValue{}).Text != "")
}

// A drawing of nothing is a line at the bottom, or no bars; what happened can be seen, however little it is.
func TestChart_ShowsWhatHappened(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(drawSpark([]float64{0, 0}).Line, "M0.0 23.0L120.0 23.0")
	is.Equal(drawSpark([]float64{0, 5, 10}).Line, "M0.0 23.0L60.0 12.5L120.0 2.0")
	is.Equal(drawSpark(nil), spark{})
	is.Equal(len(drawBars([]float64{0, 0}, []float64{0, 0})), 0)
	bars := drawBars([]float64{1000, 0, 10}, []float64{0, 1, 0})
	is.Equal(len(bars), 3)
	is.Equal(bars[0].OKHeight, 120.0)
	is.Equal(bars[1].BadHeight, 2.0)
	is.True(bars[2].OKHeight >= 1.2)
}
