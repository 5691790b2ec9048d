//! The floor: a server that answers `:0` to every command and does nothing else.

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const READ_BYTES: usize = 64 << 10;

pub(crate) async fn run(address: &str) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let (mut input, mut out) = (vec![0; READ_BYTES], Vec::new());
            while let Ok(count @ 1..) = stream.read(&mut input).await {
                out.clear();
                // Every command begins with a star, and no argument here contains another.
                for _ in input[..count].iter().filter(|byte| **byte == b'*') {
                    out.extend_from_slice(b":0\r\n");
                }
                if stream.write_all(&out).await.is_err() {
                    break;
                }
            }
        });
    }
}
