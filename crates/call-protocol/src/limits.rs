//! The bounds of every field. A peer that goes beyond one is refused.

/// The longest CALL frame, without its header.
pub const CALL_BYTES_MAX: usize = 192 * 1024;
/// The longest name of a procedure, in bytes.
pub const PROCEDURE_BYTES_MAX: usize = 64;
/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// Arguments of one call.
pub const ARGUMENTS_MAX: usize = 1024;
/// The longest name of an argument, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest value of an argument, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 * 1024;
/// All arguments of one call together, as encoded.
pub const ARGUMENTS_BYTES_MAX: usize = 96 * 1024;
/// The longest beginning of the file that a CALL carries.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest piece of the file in one DATA frame.
pub const DATA_BYTES_MAX: usize = 64 * 1024;
/// The longest insertion of one EDIT frame.
pub const INSERTED_BYTES_MAX: usize = 64 * 1024;
/// Edits of one answer.
pub const EDITS_MAX: usize = 4096;
/// The longest text of an answer. With a reply code and a status code before it, it fits into
/// the 512 bytes of an SMTP reply line.
pub const TEXT_BYTES_MAX: usize = 480;
/// The longest status code of an answer, as in `5.7.1`.
pub const ENHANCED_BYTES_MAX: usize = 11;
/// The longest version of a procedure.
pub const VERSION_BYTES_MAX: usize = 32;
/// The longest result of an answer, in bytes.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// The longest deadline that a caller may ask for, in milliseconds: an hour.
pub const DEADLINE_MS_MAX: u32 = 3_600_000;

/// The longest EDIT frame, without its header.
pub(crate) const EDIT_BYTES_MAX: usize = 16 + INSERTED_BYTES_MAX;
/// The longest ANSWER frame, without its header.
pub(crate) const ANSWER_BYTES_MAX: usize =
    64 + TEXT_BYTES_MAX + ENHANCED_BYTES_MAX + VERSION_BYTES_MAX + RESULT_BYTES_MAX;

const _: () = {
    // The largest call with all its parts fits into its frame.
    let fixed = 64 + PROCEDURE_BYTES_MAX + TOKEN_BYTES_MAX;
    assert!(fixed + ARGUMENTS_BYTES_MAX + HEAD_BYTES_MAX <= CALL_BYTES_MAX);
    assert!(PROCEDURE_BYTES_MAX < 256 && NAME_BYTES_MAX < 256);
    assert!(TOKEN_BYTES_MAX + VALUE_BYTES_MAX + ARGUMENTS_MAX + TEXT_BYTES_MAX < 65_536);
};
