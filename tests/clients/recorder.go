package main

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// requests remembers what a client sent, to prove which way it took.
type requests struct {
	mutex sync.Mutex
	seen  []string
	// Media types of the answers, by request.
	types []string
}

// recorded is the configuration with its requests remembered.
func recorded(config *rest.Config) (*rest.Config, *requests) {
	config = rest.CopyConfig(config)
	all := &requests{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recording{next, all} })
	return config, all
}

type recording struct {
	next http.RoundTripper
	all  *requests
}

func (r *recording) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(request)
	r.all.mutex.Lock()
	defer r.all.mutex.Unlock()
	r.all.seen = append(r.all.seen, request.Method+" "+request.URL.RequestURI())
	media := ""
	if answer != nil {
		media = answer.Header.Get("Content-Type")
	}
	r.all.types = append(r.all.types, media)
	return answer, err
}

// count tells how many requests hold all of the parts.
func (r *requests) count(parts ...string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found := 0
	for _, line := range r.seen {
		holds := true
		for _, part := range parts {
			holds = holds && strings.Contains(line, part)
		}
		if holds {
			found++
		}
	}
	return found
}

func (r *requests) String() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return strings.Join(r.seen, "; ")
}
