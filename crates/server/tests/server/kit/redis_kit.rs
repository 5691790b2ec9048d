//! A Redis of the test's own, on a free port of loopback.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const START_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Redis {
    pub(crate) address: SocketAddr,
    process: Child,
}

impl Redis {
    pub(crate) fn start() -> Self {
        // Somebody else may take the port before Redis does.
        (0..5).find_map(|_| Self::try_start()).expect("redis-server starts; scripts/packages installs it")
    }

    fn try_start() -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &address.port().to_string()])
            .current_dir(std::env::temp_dir())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed; scripts/packages does that");
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            if TcpStream::connect(address).is_ok() {
                return Some(Self { address, process });
            }
            if process.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = process.kill();
        let _ = process.wait();
        None
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
