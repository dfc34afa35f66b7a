"""What all tests share."""

import signal

# A shell's background job is started with SIGINT ignored, and so would be the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
