//! Output that is packed on its way, or not.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    None,
    Gzip,
    Zstd,
}

type Out = Box<dyn Write + Send>;

pub enum Packed {
    Plain(Out),
    Gzip(GzEncoder<Out>),
    Zstd(zstd::stream::write::Encoder<'static, Out>),
}

impl Packed {
    pub fn new(out: Out, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::None => Self::Plain(out),
            Packing::Gzip => Self::Gzip(GzEncoder::new(out, Compression::default())),
            Packing::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?),
        })
    }

    /// Writes the end: without it a packed file cannot be read to its last line.
    pub fn finish(self) -> io::Result<()> {
        let mut out = match self {
            Self::Plain(out) => out,
            Self::Gzip(packer) => packer.finish()?,
            Self::Zstd(packer) => packer.finish()?,
        };
        out.flush()
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(packer) => packer.write(bytes),
            Self::Zstd(packer) => packer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(packer) => packer.flush(),
            Self::Zstd(packer) => packer.flush(),
        }
    }
}
