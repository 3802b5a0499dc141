package org.springframework.cglib.core;

/** In place of Debian's, whose CGLIB is newer than its ASM, and cannot make a proxy. */
final class AsmApi {
    private AsmApi() {}

    static int value() {
        return org.springframework.asm.Opcodes.ASM6;
    }
}
