package echoes

import (
	"slices"
	"testing"

	"github.com/matryer/is"
)

func TestStart_7_5_ListenersConsumeWhereTheyAndConsumeFromSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from         Source
		to           Target
		pulse, kafka []string // the topics on each, nil when it is not used
	}{
		"defaults":   {"", "", []string{"batch", "both", "pulse"}, []string{"any", "both", "kafka"}},
		"from pulse": {FromPulse, ToPulse, []string{"any", "batch", "both", "pulse"}, []string{"both", "kafka"}},
		"from kafka": {FromKafka, ToPulse, []string{"batch", "both", "pulse"}, []string{"any", "both", "kafka"}},
		"from both":  {FromBoth, ToKafka, []string{"any", "batch", "both", "pulse"}, []string{"any", "both", "kafka"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			cfg, kafka := kafkaConfig()
			cfg.Pulse, cfg.ConsumeFrom, cfg.PublishTo = pulseConfig(), c.from, c.to
			a := newApp(t, cfg, service{
				on("any"), on("pulse", Transport("pulse")), on("kafka", Transport("kafka")), on("both", Transport("both")), onBatch("batch", 2, Transport("pulse")),
			})
			p, err := a.plan()
			is.NoErr(err)
			topics := func(carrier Carrier) []string {
				var out []string
				for _, r := range p.receivers[carrier] {
					out = append(out, r.Topic())
				}
				slices.Sort(out)
				return out
			}
			is.Equal(topics(a.pulse), c.pulse)
			is.Equal(topics(kafka), c.kafka)
		})
	}
}
