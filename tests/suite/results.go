package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// outcome is a line of the results. One without a state says that the spec begins.
type outcome struct {
	Spec    string  `json:"spec"`
	State   string  `json:"state,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Message string  `json:"message,omitempty"`
	Log     string  `json:"log,omitempty"`
}

// What is kept of a failed spec's log: its end, which is where it failed.
const logKept = 16 << 10

// record appends each spec's beginning and end to a file, at once: the process may be killed in the next spec.
func record(file string) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	write := func(line outcome) {
		if err := json.NewEncoder(out).Encode(line); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	// Those that are not selected are reported as well, as skipped.
	begun := ""
	ginkgo.ReportBeforeEach(func(spec ginkgo.SpecReport) {
		if spec.State != types.SpecStateSkipped {
			begun = spec.FullText()
			write(outcome{Spec: begun})
		}
	})
	ginkgo.ReportAfterEach(func(spec ginkgo.SpecReport) {
		if spec.FullText() == begun {
			begun = ""
			write(ended(spec))
		}
	})
	return nil
}

func ended(spec ginkgo.SpecReport) outcome {
	line := outcome{Spec: spec.FullText(), State: spec.State.String(), Seconds: spec.RunTime.Seconds()}
	if spec.Failed() {
		line.Message = spec.FailureMessage() + "\nat " + spec.FailureLocation().String()
		line.Log = spec.CapturedGinkgoWriterOutput
		if len(line.Log) > logKept {
			line.Log = line.Log[len(line.Log)-logKept:]
		}
	}
	return line
}
