package bench

import (
	"runtime"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/cmd/pulse/internal/bench/invoice"
	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
)

// decodeRounds is how often both decoders have their turn; the best round of each counts.
const decodeRounds = 5

// measureDecode compares generated decoding with the driver's, of the same document into the same type, in this process.
func measureDecode(s scenario, opts Options) (Result, error) {
	data, err := bson.Marshal(invoice.Sample())
	if err != nil {
		return Result{}, err
	}
	value := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: data}
	var generated, driver Result
	for range decodeRounds {
		if err := round(&generated, s, opts.Events, func() error {
			_, err := invoice.Decode(value)
			return err
		}); err != nil {
			return Result{}, err
		}
		if err := round(&driver, s, opts.Events, func() error {
			var i invoice.Invoice
			return bson.Unmarshal(data, &i)
		}); err != nil {
			return Result{}, err
		}
	}
	generated.Floor, generated.Ratio = &driver, generated.partOf(driver)
	return generated, nil
}

// round decodes so many times, and keeps the figures if they are better than those of the rounds before.
func round(best *Result, s scenario, events int, decode func() error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := fleet.CPU(), time.Now()
	for range events {
		if err := decode(); err != nil {
			return err
		}
	}
	took, cpu := time.Since(start).Seconds(), fleet.CPU()-cpu
	runtime.ReadMemStats(&after)
	r := Result{
		Scenario: s.name, About: s.about, Events: events, Seconds: took, PerSecond: float64(events) / took, Commands: map[string]int{},
		CPUPer1000: cpu.Seconds() / float64(events) * 1000, AllocationsPerEvent: float64(after.Mallocs-before.Mallocs) / float64(events),
	}
	if r.PerSecond > best.PerSecond {
		*best = r
	}
	return nil
}
