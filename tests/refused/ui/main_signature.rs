//! `#[stradsap::main]` on functions that can't start a program.

mod nothing {
    #[stradsap::main]
    fn main() {}
}

mod by_value {
    #[stradsap::main]
    fn main(_session: stradsap::Session) {}
}

mod mutable {
    #[stradsap::main]
    fn main(_session: &mut stradsap::Session) {}
}

mod two {
    #[stradsap::main]
    fn main(_session: &stradsap::Session, _threads: usize) {}
}

mod other {
    #[stradsap::main]
    fn main(_session: &str) {}
}

mod asynchronous {
    #[stradsap::main]
    async fn main(_session: &stradsap::Session) {}
}

mod generic {
    #[stradsap::main]
    fn main<T>(_session: &stradsap::Session) {}
}

mod arguments {
    #[stradsap::main(threads = 2)]
    fn main(_session: &stradsap::Session) {}
}

mod no_function {
    #[stradsap::main]
    struct Main;
}

fn main() {}
