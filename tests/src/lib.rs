//! Black-box tests of the stentor binary.
