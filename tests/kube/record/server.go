package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// token is the administrator's for as long as the server runs, on this machine's own address.
const token = "record"

// server is a kube-apiserver with its etcd, in a folder of its own, with default flags: what it serves is what everybody's does.
type server struct {
	url    string
	folder string
	end    context.CancelFunc
	ended  []*exec.Cmd
	http   http.Client
}

func startServer(bin string) (*server, error) {
	folder, err := os.MkdirTemp("", "record-")
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.Background())
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	s := &server{folder: folder, end: end, http: http.Client{Transport: transport, Timeout: time.Minute}}
	if err := s.start(running, bin); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) start(running context.Context, bin string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd, peer := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	s.url = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	key, tokens := filepath.Join(s.folder, "sa.key"), filepath.Join(s.folder, "tokens.csv")
	if err := writeKey(key); err != nil {
		return err
	}
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	if err := s.run(running, bin, "etcd", "--data-dir="+filepath.Join(s.folder, "etcd"), "--listen-client-urls="+etcd,
		"--advertise-client-urls="+etcd, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer, "--unsafe-no-fsync=true", "--log-level=warn"); err != nil {
		return err
	}
	if err := s.run(running, bin, "kube-apiserver", "--etcd-servers="+etcd, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", ports[2]), "--cert-dir="+filepath.Join(s.folder, "certs"), "--token-auth-file="+tokens,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none"); err != nil {
		return err
	}
	return s.ready()
}

func (s *server) run(running context.Context, bin, name string, args ...string) error {
	command := exec.CommandContext(running, filepath.Join(bin, name), args...)
	log, err := os.Create(filepath.Join(s.folder, name+".log"))
	if err != nil {
		return err
	}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return err
	}
	s.ended = append(s.ended, command)
	return nil
}

// ready waits until the server says so, and until its OpenAPI is whole, which is put together after its start.
func (s *server) ready() error {
	var err error
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(time.Second) {
		var index struct{ Paths map[string]any }
		if _, err = s.text("/readyz", ""); err != nil {
			continue
		}
		if err = s.get("/openapi/v3", "", &index); err == nil && index.Paths["apis/apiregistration.k8s.io/v1"] != nil {
			return nil
		}
	}
	return fmt.Errorf("the server is not ready (logs are in %s): %w", s.folder, err)
}

// stop ends both programs. The folder with the logs stays where the server did not come up.
func (s *server) stop() {
	s.end()
	for _, command := range s.ended {
		_ = command.Wait()
	}
	_ = os.RemoveAll(filepath.Join(s.folder, "etcd"))
	_ = os.RemoveAll(filepath.Join(s.folder, "certs"))
}

func (s *server) text(path, accept string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return body, err
}

func (s *server) get(path, accept string, into any) error {
	body, err := s.text(path, accept)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// version as the server says it, v1.MINOR.PATCH.
func (s *server) version() (string, error) {
	var version struct{ GitVersion string }
	err := s.get("/version", "", &version)
	return version.GitVersion, err
}

func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(path, pem.EncodeToMemory(&block), 0o600)
}
