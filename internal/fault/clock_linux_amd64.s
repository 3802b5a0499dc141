//go:build faults

#include "textflag.h"

// func wrongClock()
// In C's convention: DI is the clock, SI points to the seconds and nanoseconds that are to be filled in; BX and R12 are
// kept, and the stack is aligned to 16 bytes at a call.
TEXT ·wrongClock(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ BX
	PUSHQ R12
	SUBQ $8, SP
	MOVQ DI, BX
	MOVQ SI, R12
	MOVQ ·kernelsClock(SB), AX
	CALL AX
	CMPQ BX, $0 // CLOCK_REALTIME
	JNE done
	MOVQ ·wrongSeconds(SB), CX
	ADDQ CX, (R12)
done:
	ADDQ $8, SP
	POPQ R12
	POPQ BX
	RET

// func wrongClockAt() uintptr
TEXT ·wrongClockAt(SB), NOSPLIT, $0-8
	LEAQ ·wrongClock(SB), AX
	MOVQ AX, ret+0(FP)
	RET
