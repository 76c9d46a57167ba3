package devices

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The numbers of NVIDIA's device files, as the driver registers them (kernel-open/common/inc/nv-linux.h:
// NV_MAJOR_DEVICE_NUMBER, NV_MINOR_DEVICE_NUMBER_REGULAR_MAX).
const (
	gpuMajor    = 195
	gpuMinorMax = 247
)

// The context of a program of this kind (linux/bpf.h: struct bpf_cgroup_dev_ctx).
const (
	offsetAccess = 0 // access << 16 | type
	offsetMajor  = 4
	offsetMinor  = 8
	typeChar     = 2 // BPF_DEVCG_DEV_CHAR
)

// Only lets the processes of a control group open those GPUs, by their minor numbers, and no other; none of them with
// an empty list. dir is the group's folder in the v2 hierarchy. What was open before stays open.
func Only(dir string, minors []int) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "berth_gpus", Type: ebpf.CGroupDevice, License: "Apache-2.0", Instructions: instructions(minors),
	})
	if err != nil {
		return fmt.Errorf("close other GPUs: %w", err)
	}
	defer func() { _ = prog.Close() }() // the group holds the program from here on
	group, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("close other GPUs: %w", err)
	}
	defer group.Close()
	err = link.RawAttachProgram(link.RawAttachProgramOptions{ // outlives this process, ends with the group
		Target: int(group.Fd()), Program: prog, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI,
	})
	if err != nil {
		return fmt.Errorf("close other GPUs: %w", err)
	}
	return nil
}

// instructions say no to a GPU that is not listed, yes to everything else. The parents' programs have their say too.
func instructions(minors []int) asm.Instructions {
	const allow = "allow"
	code := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, offsetAccess, asm.Word),
		asm.And.Imm(asm.R2, 0xffff),
		asm.JNE.Imm(asm.R2, typeChar, allow),
		asm.LoadMem(asm.R2, asm.R1, offsetMajor, asm.Word),
		asm.JNE.Imm(asm.R2, gpuMajor, allow),
		asm.LoadMem(asm.R2, asm.R1, offsetMinor, asm.Word),
		asm.JGT.Imm(asm.R2, gpuMinorMax, allow),
	}
	for _, m := range slices.Sorted(slices.Values(minors)) {
		code = append(code, asm.JEq.Imm(asm.R2, int32(m), allow))
	}
	return append(code,
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol(allow),
		asm.Return(),
	)
}

// ErrNoGroups means that there is no v2 group to close anything in.
var ErrNoGroups = errors.New("no control group of version 2")

// Probe finds out by trial whether runs in groups below root can be closed off.
func Probe(root string) error {
	if root == "" {
		return ErrNoGroups
	}
	dir, err := os.MkdirTemp(root, "probe-devices-")
	if err != nil {
		return err
	}
	return errors.Join(Only(dir, nil), os.Remove(dir))
}
