package directive

import (
	"strings"
	"unicode/utf8"

	"github.com/orionjs/orion-go/internal/spelling"
)

// otherKeys are the words that other systems have for a setting, without regard
// to case, dashes and underscores.
var otherKeys = map[string]Key{
	"name": Topic, "subject": Topic, "event": Topic, "eventname": Topic, "channel": Topic, "queue": Topic,
	"size": BatchSize, "batch": BatchSize, "maxbatchsize": BatchSize, "batchlimit": BatchSize, "limit": BatchSize, "maxitems": BatchSize,
	"fifo": Ordered, "sequential": Ordered, "ordering": Ordered, "unordered": Ordered,
	"offset": OffsetReset, "autooffsetreset": OffsetReset, "startfrom": OffsetReset, "frombeginning": OffsetReset,
	"guarantee": Delivery, "deliverymode": Delivery, "semantics": Delivery, "qos": Delivery,
	"retries": MaxRetries, "retry": MaxRetries, "maxretry": MaxRetries, "attempts": MaxRetries, "maxattempts": MaxRetries, "retrycount": MaxRetries,
	"delay": RetryDelay, "retryafter": RetryDelay, "retryinterval": RetryDelay, "backoff": RetryDelay, "initialdelay": RetryDelay,
	"multiplier": RetryBackoffMultiplier, "backoffmultiplier": RetryBackoffMultiplier, "retrymultiplier": RetryBackoffMultiplier, "factor": RetryBackoffMultiplier, "backofffactor": RetryBackoffMultiplier,
	"jitter": RetryJitter, "backoffjitter": RetryJitter, "retrydelayjitter": RetryJitter,
	"maxdelay": MaxRetryDelay, "maxbackoff": MaxRetryDelay, "maxretryinterval": MaxRetryDelay, "maxinterval": MaxRetryDelay, "retrymaxdelay": MaxRetryDelay, "retrydelaymax": MaxRetryDelay,
	"timeout": HandlerTimeout, "deadline": HandlerTimeout, "maxduration": HandlerTimeout, "executiontimeout": HandlerTimeout, "jobtimeout": HandlerTimeout, "processingtimeout": HandlerTimeout,
	"rate": RateLimit, "rps": RateLimit, "persecond": RateLimit, "ratepersecond": RateLimit, "throttle": RateLimit, "throttling": RateLimit, "maxpersecond": RateLimit, "limiter": RateLimit,
	"burst": RateBurst, "burstsize": RateBurst,
	"version": ConfigVersion, "settingsversion": ConfigVersion,
	"execution":   ExecutionVersion,
	"concurrency": MaxConcurrency, "parallelism": MaxConcurrency, "parallel": MaxConcurrency, "workers": MaxConcurrency, "maxworkers": MaxConcurrency, "maxparallel": MaxConcurrency, "maxinflight": MaxConcurrency, "prefetch": MaxConcurrency,
	"broker": Transport, "from": Transport, "via": Transport, "consumefrom": Transport, "source": Transport,
	"invalid": OnInvalid, "onerror": OnInvalid, "skipinvalid": OnInvalid, "oninvaliditem": OnInvalid,
	"nocopy": ZeroCopy, "alias": ZeroCopy, "inplace": ZeroCopy,
}

// elsewhere are settings that belong to the whole service.
var elsewhere = map[string]string{
	"group":         inConfig + "Pulse.Config.ConsumerGroup",
	"groupid":       inConfig + "Pulse.Config.ConsumerGroup",
	"consumergroup": inConfig + "Pulse.Config.ConsumerGroup",
	"locktimeout":   inConfig + "Pulse.Config.LockTimeout",
	"dlq":           "events past maxRetries need no setting: Pulse keeps them as failed deliveries, Kafka has DLQ-TOPIC",
	"deadletter":    "events past maxRetries need no setting: Pulse keeps them as failed deliveries, Kafka has DLQ-TOPIC",
	"publishto":     inConfig + "PublishTo",
	"filter":        "a listener gets every event of its topic: return nil for those that it does not want",
}

const inConfig = "that is set for the whole service, in echoes.Config: "

// nearestKey returns the key that a word is a slip of, or another word for.
func nearestKey(name string) (Key, bool) {
	plain := strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
	for _, k := range keys {
		if strings.ToLower(string(k.key)) == plain {
			return k.key, true
		}
	}
	if key, ok := otherKeys[plain]; ok {
		return key, true
	}
	near, ok := spelling.Nearest(name, keyNames())
	return Key(near), ok
}

// openingQuote returns the quote that a value begins with, empty for none.
func openingQuote(value string) string {
	if r, _ := utf8.DecodeRuneInString(value); strings.ContainsRune("\"'`“”„«‘", r) {
		return string(r)
	}
	return ""
}

// closing returns the quote that ends what another began.
func closing(quote string) string {
	switch quote {
	case "“", "„":
		return "”"
	case "«":
		return "»"
	case "‘":
		return "’"
	}
	return quote
}

// closes reports whether a value that begins with a quote has the other one.
func closes(value, quote string) bool {
	return strings.Contains(strings.TrimPrefix(value, quote), closing(quote))
}
