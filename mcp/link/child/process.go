package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
)

// soon is how long a program may live on that has closed its output, and how long output
// is waited for that a dead one may have left in the pipe. Both together stay within the
// 100 ms in which calls to a dead provider fail.
const soon = 40 * time.Millisecond

// A process is a link to a program that runs.
type process struct {
	command *Command
	cmd     *exec.Cmd
	pipes   *pipes
	out     *link.Outbox
	in      *link.Receiver
	open    *link.Open

	closed  context.Context // the broker wants it to end
	closing func()          // ends that context
	deaf    chan struct{}   // closed when nothing can be written any more
	silent  chan struct{}   // closed when its output has ended
	exited  chan struct{}   // closed when it has ended, and its group with it
	state   error           // how it ended, once exited is closed
	moving  sync.WaitGroup  // who read from its pipes and write to them

	mu     sync.Mutex
	reaped bool // its number may be another's, now or soon
}

func newProcess(c *Command, pipes *pipes, in link.Inbox) *process {
	p := &process{command: c, cmd: c.exec(pipes), pipes: pipes, out: link.NewOutbox(c.MaxFrame),
		open: link.NewOpen(in), deaf: make(chan struct{}), silent: make(chan struct{}), exited: make(chan struct{})}
	p.closed, p.closing = context.WithCancel(context.Background())
	p.in = link.NewReceiver(p.open, c.MaxFrame, func(m *jsonrpc.Message) { p.out.Offer(line(m.Raw)) })
	return p
}

// live starts the program, waits for its end, and ends its group. Linux kills a child
// when the thread ends that started it, so this goroutine keeps its thread meanwhile.
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.state = wait(p.cmd, func() {
		p.mu.Lock()
		p.reaped = true
		p.mu.Unlock()
		kill(p.cmd)
	})
	close(p.exited)
}

// begin starts what moves frames, once the program runs.
func (p *process) begin() {
	p.moving.Go(p.read)
	p.moving.Go(func() {
		defer close(p.deaf)
		_ = p.out.Run(p.write)
	})
	p.moving.Go(func() { p.command.logLines(p.pipes.stderr) })
	go p.supervise()
}

func (p *process) read() {
	defer close(p.silent)
	for lines := link.NewLines(p.pipes.stdout, p.in.Limit()); ; {
		frame, err := lines.Next()
		if long, ok := errors.AsType[*link.TooLong](err); ok {
			p.in.TooLong(long)
			continue
		}
		if err != nil {
			return
		}
		p.in.Frame(frame, jsonrpc.ID{})
	}
}

func (p *process) write(frame []byte) (left bool, err error) {
	n, err := p.pipes.stdin.Write(frame)
	return n > 0, err
}

// line returns a frame as a line. White space in JSON may be newlines, and is all that can be.
func line(frame []byte) []byte {
	b := append(make([]byte, 0, len(frame)+1), frame...)
	if bytes.ContainsAny(b, "\r\n") {
		for i, c := range b {
			if c == '\n' || c == '\r' {
				b[i] = ' '
			}
		}
	}
	return append(b, '\n')
}

// supervise ends the program when it is time, and the link when the program has ended.
func (p *process) supervise() {
	select {
	case <-p.exited:
	case <-p.closed.Done():
		p.stop()
	case <-p.deaf: // it may still be answering
		p.stop()
	case <-p.silent:
		p.stopSilent()
	}
	<-p.exited
	p.out.Close()
	_ = p.pipes.stdin.Close()
	limit := time.Now().Add(soon) // who has left the group may hold the pipes open for ever
	_ = p.pipes.stdout.SetReadDeadline(limit)
	_ = p.pipes.stderr.SetReadDeadline(limit)
	p.moving.Wait()
	p.pipes.closeOurs()
	if len(p.command.Sweep) > 0 {
		p.open.Fail(link.Failure{Err: p.end()})
		p.command.sweep(context.Background())
	}
	p.in.Down(p.end())
	p.closing()
}

// stopSilent ends a program that can answer nobody any more. Calls fail at once; the
// program still gets its time to end by itself.
func (p *process) stopSilent() {
	_ = p.pipes.stdin.Close()
	if p.ends(soon) {
		return
	}
	p.open.Fail(link.Failure{Err: fmt.Errorf("mcp/link/child: %s has closed its output", p.command)})
	p.stop()
}

// stop asks the program to end, then tells its group to, then kills it.
func (p *process) stop() {
	grace := p.command.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	_ = p.pipes.stdin.Close()
	if p.ends(grace) {
		return
	}
	p.signal(terminate)
	if p.ends(grace) {
		return
	}
	p.signal(kill)
}

// ends waits for the program's end.
func (p *process) ends(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// signal signals the group, unless its number may be another's.
func (p *process) signal(send func(*exec.Cmd)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		send(p.cmd)
	}
}

// end says why the link is down.
func (p *process) end() error {
	if p.closed.Err() != nil {
		return link.ErrClosed
	}
	if p.state == nil {
		return fmt.Errorf("mcp/link/child: %s has ended", p.command)
	}
	return fmt.Errorf("mcp/link/child: %s has ended: %w", p.command, p.state)
}

// Send puts a message into the queue to the program's input.
func (p *process) Send(ctx context.Context, m link.Outgoing) error {
	if err := p.open.Begin(m.Message); err != nil {
		return err
	}
	err := p.out.Send(ctx, line(m.Raw), m.Message, p.in)
	if err != nil {
		p.open.End(m.ID)
	}
	return err
}

// Cancel sends notifications/cancelled, in both eras. The request may never be answered.
func (p *process) Cancel(id jsonrpc.ID, reason string) {
	p.open.End(id)
	p.out.Push(line(link.Cancelled(id, reason).Raw))
}

// Shared is true: a program has one output.
func (p *process) Shared() bool { return true }

// Alive reports whether the program runs and has not closed its output.
func (p *process) Alive(context.Context) bool {
	select {
	case <-p.silent:
		return false
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Close closes the program's input, and ends it if that is not enough.
func (p *process) Close() error {
	p.closing()
	return nil
}
