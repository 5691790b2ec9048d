//! Where lines come from: a file or standard input, plain, gzip or zstd, told by the first bytes.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use xxhash_rust::xxh3::Xxh3;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const MAGIC_MAX_BYTES: usize = 4;
const RAW_BUFFER_BYTES: usize = 256 << 10;
/// How much of both ends of a file tells it from another.
const PRINT_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    StandardInput,
}

impl Source {
    /// `-` is standard input.
    pub fn named(name: &Path) -> Self {
        if name == Path::new("-") { Self::StandardInput } else { Self::File(name.to_owned()) }
    }

    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::StandardInput => "standard input".to_owned(),
        }
    }

    /// What of this source is the same only for the same contents; `None` for a stream that cannot be read twice.
    pub(super) fn print(&self) -> io::Result<Option<u64>> {
        let Self::File(path) = self else { return Ok(None) };
        let mut file = File::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Ok(None);
        }
        let mut hash = Xxh3::new();
        let mut part = Vec::new();
        for start in [0, meta.len().saturating_sub(PRINT_BYTES)] {
            file.seek(SeekFrom::Start(start))?;
            part.clear();
            file.by_ref().take(PRINT_BYTES).read_to_end(&mut part)?;
            hash.update(&meta.len().to_be_bytes());
            hash.update(&part);
        }
        Ok(Some(hash.digest()))
    }

    /// Bytes as they lie on the disk; `None` when nobody knows ahead.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::File(path) => path.metadata().ok().filter(|meta| meta.is_file()).map(|meta| meta.len()),
            Self::StandardInput => None,
        }
    }

    /// The text from its beginning, unpacked; `read` counts the bytes as they lie on the disk.
    pub(super) fn open(&self, read: &Arc<AtomicU64>) -> io::Result<Text> {
        let counted = |input: Box<dyn Read + Send>| Counted { input, read: Arc::clone(read) };
        match self {
            Self::File(path) => {
                let mut file = File::open(path)?;
                if file.metadata()?.is_dir() {
                    return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder, not a file"));
                }
                let first = first_bytes(&mut file)?;
                if packing(&first).is_none() && file.metadata()?.is_file() {
                    file.seek(SeekFrom::Start(0))?;
                    return Ok(Text::Plain(file, Arc::clone(read)));
                }
                Text::unpacked(counted(Box::new(Cursor::new(first).chain(file))))
            }
            Self::StandardInput => Text::unpacked(counted(Box::new(io::stdin()))),
        }
    }
}

fn first_bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    input.by_ref().take(MAGIC_MAX_BYTES as u64).read_to_end(&mut first)?;
    Ok(first)
}

#[derive(Clone, Copy)]
enum Packing {
    Gzip,
    Zstd,
}

fn packing(first: &[u8]) -> Option<Packing> {
    if first.starts_with(GZIP) {
        return Some(Packing::Gzip);
    }
    first.starts_with(ZSTD).then_some(Packing::Zstd)
}

pub(super) enum Text {
    /// Can go anywhere at once.
    Plain(File, Arc<AtomicU64>),
    /// Can only go on.
    Stream(Box<dyn Read + Send>),
}

impl Text {
    fn unpacked(mut raw: Counted) -> io::Result<Self> {
        let first = first_bytes(&mut raw)?;
        let packing = packing(&first);
        let raw = BufReader::with_capacity(RAW_BUFFER_BYTES, Cursor::new(first).chain(raw));
        Ok(Self::Stream(match packing {
            Some(Packing::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
            Some(Packing::Zstd) => Box::new(zstd::stream::read::Decoder::with_buffer(raw)?),
            None => Box::new(raw),
        }))
    }

    /// From the beginning to `offset`; only before anything was read.
    pub(super) fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        match self {
            Self::Plain(file, read) => {
                read.fetch_add(file.seek(SeekFrom::Start(offset))?, Ordering::Relaxed);
            }
            Self::Stream(stream) => {
                let skipped = io::copy(&mut stream.take(offset), &mut io::sink())?;
                if skipped < offset {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than before"));
                }
            }
        }
        Ok(())
    }
}

impl Read for Text {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file, read) => {
                let got = file.read(buffer)?;
                read.fetch_add(got as u64, Ordering::Relaxed);
                Ok(got)
            }
            Self::Stream(stream) => stream.read(buffer),
        }
    }
}

struct Counted {
    input: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.input.read(buffer)?;
        self.read.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}
